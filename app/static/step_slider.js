// The slider over the steps of a training run, with a Play button.

const PACE = 900; // ms between the steps that are played
const PAUSE = 150; // ms between two requests of a slider that is dragged

/**
 * Follow the slider and the button. Playing requests the next step at an interval; moving the slider stops it.
 * @param {GradioElement} host
 */
export function stepSlider({ element, trigger, props, watch }) {
  const button = element.querySelector("button"), range = element.querySelector("input");
  const said = element.querySelector("output");
  if (!button || !range || !said) return;
  /** @type {string[]} */
  let steps = [];
  let timer = 0, asking = 0;
  const name = () => {
    said.value = steps.length ? `step ${steps[Number(range.value)]}` : "";
    range.setAttribute("aria-valuetext", said.value);
  };
  const send = () => {
    asking = 0;
    if (element.isConnected) trigger("select", { at: Number(range.value) });
  };
  const ask = () => {
    name();
    asking ||= setTimeout(send, PAUSE);
  };
  const move = (/** @type {number} */ at) => {
    range.value = String(at);
    ask();
  };
  const play = (/** @type {boolean} */ on) => {
    clearInterval(timer);
    timer = 0;
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Pause" : "Play";
    if (!on) return;
    if (range.value === range.max) move(0);
    timer = setInterval(() => {
      if (!element.isConnected || range.value === range.max) play(false);
      else move(Number(range.value) + 1);
    }, PACE);
  };
  const show = () => {
    const given = JSON.parse(props.value || "{}");
    if (JSON.stringify(given.steps ?? []) !== JSON.stringify(steps)) {
      play(false);
      steps = given.steps ?? [];
      range.max = String(Math.max(steps.length - 1, 0));
    } else if (timer || asking || document.activeElement === range) return; // whoever moves it knows where it is
    range.value = given.at ?? range.max;
    name();
  };
  range.addEventListener("input", () => {
    play(false);
    ask();
  });
  button.addEventListener("click", () => play(!timer));
  watch("value", show);
  show();
}
