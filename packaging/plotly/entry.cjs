"use strict";
// plotly.js/src/core.js without the components that no figure uses.
const Registry = require("plotly.js/src/registry");
require("plotly.js/build/plotcss");
const api = require("plotly.js/src/plot_api");
for (const name of Object.keys(api)) {
  if (!name.startsWith("_")) exports[name] = api[name];
  Registry.register({ moduleType: "apiMethod", name, fn: api[name] });
}
Registry.register([
  require("plotly.js/src/traces/scatter"),
  require("plotly.js/lib/bar"),
  require("plotly.js/lib/heatmap"),
  require("plotly.js/src/components/annotations"),
  require("plotly.js/src/components/shapes"),
  require("plotly.js/src/components/grid"),
  require("plotly.js/src/components/errorbars"),
  require("plotly.js/src/components/colorscale"),
  require("plotly.js/src/components/colorbar"),
  require("plotly.js/src/components/legend"),
  require("plotly.js/src/components/fx"),
  require("plotly.js/src/components/modebar"),
  require("plotly.js/src/locale-en"),
  require("plotly.js/src/locale-en-us"),
]);
exports.version = require("plotly.js/src/version").version;
exports.Icons = require("plotly.js/src/fonts/ploticon");
exports.register = Registry.register;
