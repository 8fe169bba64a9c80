// In place of plotly.js' selections, which no figure offers; dragging asks for these three.
exports.prepSelect = exports.clearOutline = exports.selectOnClick = function () {};
