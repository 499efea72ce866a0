// plotly.js with the traces that hfposemb draws; lines and dots (scatter) are always part of it.
const Plotly = require("plotly.js/lib/core");
Plotly.register([
  require("plotly.js/lib/bar"),
  require("plotly.js/lib/heatmap"),
  require("plotly.js/lib/scatter3d"),
  require("plotly.js/lib/scattergl"),
]);
// The point under the pointer is looked up once per frame, where plotly.js waits 50 ms after the lookup before.
require("plotly.js/src/components/fx/constants").HOVERMINTIME = 16;
module.exports = Plotly;
