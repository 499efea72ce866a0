// plotly.js with the traces that hfposemb draws; lines and dots (scatter) are always part of it.
const Plotly = require("plotly.js/lib/core");
Plotly.register([
  require("plotly.js/lib/bar"),
  require("plotly.js/lib/heatmap"),
  require("plotly.js/lib/scatter3d"),
  require("plotly.js/lib/scattergl"),
]);
module.exports = Plotly;
