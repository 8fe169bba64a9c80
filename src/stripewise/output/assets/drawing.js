// What reports and the service's pages share: drawing a figure where there is a place for it, and copying a text.
window.stripewise = (function () {
  "use strict";
  var config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: window.matchMedia("(hover: hover)").matches ? "hover" : false,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };

  // A copy with the colours of a look. A scale of colours stays: texts that stand on it are made for its own.
  function recoloured(part, colours) {
    if (typeof part === "string") {
      return colours[part] || part;
    }
    if (Array.isArray(part)) {
      return part.map(function (one) { return recoloured(one, colours); });
    }
    if (part === null || typeof part !== "object") {
      return part;
    }
    var copy = {};
    Object.keys(part).forEach(function (key) {
      copy[key] = key === "colorscale" ? part[key] : recoloured(part[key], colours);
    });
    return copy;
  }

  function drawn(place, figure, look) {
    if (place.closest("details:not([open])")) {
      // What is folded has no width to draw in; it is drawn once it is opened.
      return Promise.resolve();
    }
    var height = figure.layout.height;
    if (place.clientWidth < 560) {
      // There the legend has a line an entry.
      height += 16 * figure.data.filter(function (trace) { return trace.name && trace.showlegend !== false; }).length;
    }
    place.style.height = height + "px";
    if (figure.layout.meta && figure.layout.meta.least_width) {
      place.style.minWidth = figure.layout.meta.least_width + "px";
    }
    var layout = Object.assign({}, recoloured(figure.layout, look.colours), {
      template: look.template,
      autosize: true,
      height: height,
    });
    return Plotly.react(place, recoloured(figure.data, look.colours), layout, config);
  }

  function copied(text) {
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

  // A link to a section that is folded opens it.
  function unfold() {
    var target = window.location.hash.length > 1 && document.getElementById(decodeURIComponent(window.location.hash.slice(1)));
    var fold = target && target.querySelector(":scope > details");
    if (fold && !fold.open) {
      fold.open = true;
      target.scrollIntoView();
    }
  }

  window.addEventListener("hashchange", unfold);
  document.addEventListener("DOMContentLoaded", unfold);
  document.addEventListener("click", function (event) {
    var link = event.target.closest("a[href^='#']");
    if (link && link.hash === window.location.hash) {
      unfold();
    }
  });

  return { drawn: drawn, copied: copied };
})();
