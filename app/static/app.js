// The script of the app: it runs what the components of a page have called, by name, and what they call from then on.

import { followAddress } from "./address.js";
import { cancelJob, chooseWord, copyRecipe, saveFile } from "./buttons.js";
import { foldControls } from "./folded_controls.js";
import { lessonPath, lessonResult } from "./lessons.js";
import { followQuestions, openCard } from "./links.js";
import { markPosition } from "./marked_position.js";
import { rememberSources } from "./preferences.js";
import { page } from "../../hfposemb/figures/static/pages/page.js";
import { announceReady, openTab } from "./ready.js";
import { drawStyledRow } from "./styled_row.js";
import { signInOrOut } from "./sign_in.js";
import { stepSlider } from "./step_slider.js";
import { pageHeader, sourceField } from "./page_header.js";

/** @type {Record<string, (host: any, options: any) => unknown>} */
const CALLED = {
  announceReady, cancelJob, chooseWord, copyRecipe, drawStyledRow, foldControls, followAddress, followQuestions,
  lessonPath, lessonResult, markPosition, openCard, openTab, pageHeader, rememberSources, saveFile, signInOrOut,
  sourceField, stepSlider,
};

/** @param {Call} call */
function run([name, host, options]) {
  try {
    Promise.resolve(CALLED[name](host, options)).catch(reportError);
  } catch (error) {
    reportError(error);
  }
}

// See page_script.py: calls wait in an array until this is loaded.
const waiting = window.hfposembCalls ?? [];
window.hfposembCalls = { push: run };
if (Array.isArray(waiting)) waiting.forEach(run);

// What every row needs is served next to this script: it is loaded while Gradio still builds the page. A row that finds
// it failed loads it again.
for (const load of [
  () => page.style(new URL("hfposemb.css", import.meta.url).href),
  () => page.load(new URL("plotly.min.js", import.meta.url).href),
]) load().catch(() => {});
