// Brushing in the parallel coordinates: a range on each axis, by mouse along the axis or by the lists beneath it.
(function () {
  "use strict";
  var place = document.querySelector('[data-figure="parallel"]');
  var box = document.getElementById("brushes");
  if (!place || !box) {
    return;
  }
  var ranges = {};
  var axes = [];
  var drag = null;

  function inside(levels) {
    return axes.every(function (axis, index) {
      var range = ranges[axis.name];
      return !range || (levels[index] >= range[0] && levels[index] <= range[1]);
    });
  }

  function apply() {
    var traces = [];
    var opacities = [];
    var kept = 0;
    var all = 0;
    place.data.forEach(function (trace, index) {
      if (!trace.meta || !trace.meta.levels) {
        return;
      }
      all += 1;
      var shown = inside(trace.meta.levels);
      kept += shown ? 1 : 0;
      traces.push(index);
      opacities.push(shown ? trace.meta.opacity : 0.04);
    });
    Plotly.restyle(place, { opacity: opacities }, traces);
    var shapes = (place.layout.shapes || []).filter(function (shape) {
      return shape.name !== "brush";
    });
    axes.forEach(function (axis, index) {
      var range = ranges[axis.name];
      if (range) {
        var last = Math.max(axis.labels.length - 1, 1);
        shapes.push({
          name: "brush",
          type: "rect",
          x0: index - 0.035,
          x1: index + 0.035,
          y0: range[0] / last - 0.03,
          y1: range[1] / last + 0.03,
          fillcolor: "#b8609a",
          opacity: 0.45,
          line: { width: 0 },
        });
      }
    });
    Plotly.relayout(place, { shapes: shapes });
    var any = Object.keys(ranges).length;
    document.getElementById("brushed").textContent = any ? kept + " of " + all + " configurations" : all + " configurations";
    document.getElementById("brush-clear").disabled = !any;
  }

  function select(axis, edge, value) {
    var label = document.createElement("label");
    label.textContent = axis.name + (edge === 0 ? " from" : " to");
    var list = document.createElement("select");
    axis.labels.forEach(function (text, level) {
      list.add(new Option(text, level, false, level === value));
    });
    list.dataset.axis = axis.name;
    list.dataset.edge = edge;
    label.appendChild(list);
    return label;
  }

  function lists() {
    var grid = document.getElementById("brush-lists");
    grid.replaceChildren();
    axes.forEach(function (axis) {
      var range = ranges[axis.name] || [0, axis.labels.length - 1];
      grid.appendChild(select(axis, 0, range[0]));
      grid.appendChild(select(axis, 1, range[1]));
    });
  }

  function set(name, low, high) {
    var axis = axes.find(function (one) {
      return one.name === name;
    });
    var whole = low <= 0 && high >= axis.labels.length - 1;
    if (whole) {
      delete ranges[name];
    } else {
      ranges[name] = [Math.min(low, high), Math.max(low, high)];
    }
  }

  box.addEventListener("change", function (event) {
    var name = event.target.dataset.axis;
    if (!name) {
      return;
    }
    var own = box.querySelectorAll('select[data-axis="' + CSS.escape(name) + '"]');
    set(name, Number(own[0].value), Number(own[1].value));
    apply();
  });
  document.getElementById("brush-clear").addEventListener("click", function () {
    ranges = {};
    lists();
    apply();
  });

  function at(event) {
    var full = place._fullLayout;
    if (!full || !full.xaxis) {
      return null;
    }
    var area = place.querySelector(".nsewdrag").getBoundingClientRect();
    var x = full.xaxis.p2c(event.clientX - area.left);
    var index = Math.round(x);
    if (index < 0 || index >= axes.length || Math.abs(x - index) > 0.12) {
      return null;
    }
    var last = Math.max(axes[index].labels.length - 1, 1);
    var level = Math.round(full.yaxis.p2c(event.clientY - area.top) * last);
    return { axis: axes[index], level: Math.max(0, Math.min(axes[index].labels.length - 1, level)) };
  }

  place.addEventListener(
    "mousedown",
    function (event) {
      var start = at(event);
      if (start) {
        drag = start;
        event.preventDefault();
        event.stopPropagation();
      }
    },
    true
  );
  window.addEventListener("mouseup", function (event) {
    if (!drag) {
      return;
    }
    var end = at(event);
    var level = end && end.axis === drag.axis ? end.level : drag.level;
    var low = Math.min(drag.level, level);
    var high = Math.max(drag.level, level);
    set(drag.axis.name, low, high);
    drag = null;
    lists();
    apply();
  });

  place.addEventListener("stripewise-drawn", function () {
    var meta = place.layout.meta || {};
    var fresh = meta.axes || [];
    if (JSON.stringify(fresh) !== JSON.stringify(axes)) {
      axes = fresh;
      ranges = {};
      lists();
    }
    box.hidden = axes.length === 0;
    if (axes.length) {
      // The configurations may have become more.
      apply();
    }
  });
})();
