// The slider over the steps of a training run, with a Play button.

const PACE = 900; // ms between the steps that are played

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
  let timer = 0;
  /** @type {number | null} */
  let wanted = null; // the step that was asked for and has not come yet
  const name = () => {
    said.value = steps.length ? `step ${steps[Number(range.value)]}` : "";
    range.setAttribute("aria-valuetext", said.value);
  };
  const move = (/** @type {number} */ at) => {
    range.value = String(at);
    ask();
  };
  const ask = () => {
    name();
    wanted = Number(range.value);
    trigger("select", { at: wanted });
  };
  const play = (/** @type {boolean} */ on) => {
    const played = timer !== 0;
    clearInterval(timer);
    timer = 0;
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Pause" : "Play";
    if (played && wanted !== null && element.isConnected) trigger("select", { at: wanted }); // it may have been dropped
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
      wanted = null;
      play(false);
      steps = given.steps ?? [];
      range.max = String(Math.max(steps.length - 1, 0));
    } else if (wanted !== null && given.at !== wanted && !timer) {
      trigger("select", { at: wanted }); // this answers an earlier request; the last one may have been dropped
      return;
    } else {
      if (given.at === wanted) wanted = null;
      if (timer || document.activeElement === range) return; // whoever moves it knows better where it is
    }
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
