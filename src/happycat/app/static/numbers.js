/* The number of new classes: the estimate, what another number would change, and changing it. */

import { get, post, text } from "./api.js";
import { button } from "./card_parts.js";
import { confirmed } from "./dialogs.js";
import { find, make, thousands } from "./dom.js";

const AGAIN = 250; // milliseconds until a computation is asked about again

export function makeNumbers(app) {
  const { store } = app;
  let drawn = null; // the review whose number is drawn
  let shown = null; // the version whose preview is shown
  let asked = 0; // how often a preview was asked for: the last one is shown

  /** The new classes that there are. */
  const now = () => store.state.classes.filter((one) => one.kind === "new").length;

  async function refresh() {
    const { review, tag } = store.state;
    find("#estimate").hidden = review === null;
    if (review === null || shown === tag) return;
    shown = tag;
    const slider = find("#slider");
    Object.assign(slider, { min: 0, max: Math.max(2 * now(), 8), value: now() });
    slider.oninput();
    if (drawn === review.id) return;
    drawn = review.id;
    find("#estimate-number").textContent = review.found;
    find("#estimate-words").textContent = words(review);
    const content = new DOMParser().parseFromString(await text("api/number"), "text/html");
    find("#chart").replaceChildren(...content.body.children);
  }

  function words({ estimated, found, estimate, limit }) {
    if (!estimated) return "The number was given, not estimated.";
    if (estimate !== found) return `The number that was chosen; the estimate was ${estimate}.`;
    return `The estimate, and how probable other numbers are. ${limit}`;
  }

  find("#slider").oninput = () => {
    const number = Number(find("#slider").value);
    find("#slider-value").textContent = number;
    find("#again-start").disabled = number === now();
    find("#again-changes").replaceChildren();
    if (number === now()) return say("As many as now.");
    say("Computing what would change.");
    return preview(number);
  };

  const say = (line) => (find("#again-note").textContent = line);

  /** Ask until it is computed; another number that was chosen meanwhile goes first. */
  async function preview(number) {
    const mine = ++asked;
    try {
      for (;;) {
        const answer = await get(`api/number/${number}`);
        if (mine !== asked) return;
        if (answer.state === "failed") return void say(answer.error);
        if (answer.state === "done") return void show(answer);
        say(`Computing what would change: ${answer.step}.`);
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
        if (mine !== asked) return;
      }
    } catch (error) {
      app.problem(error);
    }
  }

  function show({ changes, kept, most }) {
    const slider = find("#slider");
    Object.assign(slider, { min: kept, max: Math.min(slider.max, most) });
    const stay = kept ? ` ${kept === 1 ? "One class" : `${kept} classes`} that you named or spoke of would stay.` : "";
    const some = changes.length ? "Computed with the discovery's own search:" : "No class would change by much.";
    say(`${some}${stay}`);
    find("#again-changes").replaceChildren(...changes.map(change));
  }

  function change({ text: line, parts }) {
    const galleries = parts.map((images) => {
      const gallery = make("div", { class: "gallery" });
      app.fill(gallery, images);
      return gallery;
    });
    return make("li", {}, make("p", {}, `${line.charAt(0).toUpperCase()}${line.slice(1)}.`), ...galleries);
  }

  async function start() {
    const number = Number(find("#slider").value);
    const details = "It is a new version; undo takes it back. What you named, confirmed or moved stays.";
    const question = `Change to ${thousands(number)} new ${number === 1 ? "class" : "classes"}?`;
    if (!(await confirmed(question, "Change", [make("p", {}, details)]))) return;
    try {
      await post("api/renumber", { number, tag: store.state.tag });
      app.pulse();
    } catch (error) {
      app.problem(error);
    }
  }
  const apply = button("Change the number", start);
  apply.id = "again-start";
  find("#again-note").before(apply);

  return { refresh };
}
