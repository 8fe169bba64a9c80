(function () {
  "use strict";
  var document_ = JSON.parse(document.getElementById("figures").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: window.matchMedia("(hover: hover)").matches ? "hover" : false,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };

  function draw(light) {
    var look = document_.templates[dark.matches && !light ? "dark" : "light"];
    return Promise.all(
      Array.prototype.map.call(document.querySelectorAll("[data-figure]"), function (place) {
        var figure = document_.figures[place.dataset.figure];
        var height = figure.layout.height;
        if (place.clientWidth < 560) {
          // There the legend has a line an entry.
          height += 16 * figure.data.filter(function (trace) { return trace.name && trace.showlegend !== false; }).length;
        }
        place.style.height = height + "px";
        if (figure.layout.meta) {
          place.style.minWidth = figure.layout.meta.least_width + "px";
        }
        var layout = Object.assign({}, figure.layout, { template: look, autosize: true, height: height });
        return Plotly.react(place, figure.data, layout, config);
      })
    );
  }

  draw(false);
  dark.addEventListener("change", function () {
    draw(false);
  });

  // Paper is white and cannot be opened: print in the light look, with everything unfolded.
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.prototype.filter.call(document.querySelectorAll("details"), function (one) {
      return !one.open;
    });
    folded.forEach(function (one) {
      one.open = true;
    });
    draw(true);
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (one) {
      one.open = false;
    });
    draw(false);
  });

  function copy(text) {
    if (navigator.clipboard && window.isSecureContext) {
      return navigator.clipboard.writeText(text);
    }
    var field = document.createElement("textarea");
    field.value = text;
    field.setAttribute("readonly", "");
    field.className = "offscreen";
    document.body.appendChild(field);
    field.select();
    var done = document.execCommand("copy");
    field.remove();
    return done ? Promise.resolve() : Promise.reject(new Error("copying is not allowed"));
  }

  Array.prototype.forEach.call(document.querySelectorAll("button.copy"), function (button) {
    button.addEventListener("click", function () {
      var text = button.parentNode.querySelector("code").textContent;
      var say = function (word) {
        button.textContent = word;
        window.setTimeout(function () {
          button.textContent = "Copy";
        }, 1500);
      };
      copy(text).then(
        function () {
          say("Copied");
        },
        function () {
          say("Select it by hand");
        }
      );
    });
  });
})();
