/* Discovering: an inbox by path or of dropped files; how far work in the background is, its questions and its end. */

import { post } from "./api.js";
import { confirmed, toast } from "./dialogs.js";
import { find, thousands } from "./dom.js";
import { makeNumbers } from "./numbers.js";
import { upload } from "./uploads.js";

export function makeDiscover(app) {
  const { store } = app;
  const numbers = makeNumbers(app);
  let followed = 0; // the work whose end was said last
  let asked = null; // the question that is shown

  async function start(path, number) {
    try {
      await post("api/discover", { path, new: number, propose: find("#propose").checked });
      app.pulse();
    } catch (error) {
      app.problem(error);
    }
  }

  find("#discover-form").onsubmit = (event) => {
    event.preventDefault();
    const number = find("#number").value.trim();
    if (number && !/^\d+$/.test(number)) return toast("The number of new classes is a whole number.", true);
    return start(find("#inbox").value, number ? Number(number) : "auto");
  };
  find("#job-cancel").onclick = () => post("api/cancel").then(app.pulse, app.problem);

  /** Show how far the work is. */
  function follow(job) {
    const running = job !== null && (job.state === "running" || job.state === "cancelling");
    find("#job").hidden = !running;
    document.body.classList.toggle("discovering", running);
    if (running) {
      followed = -job.number;
      const words = job.state === "cancelling" ? "Cancelling" : job.step;
      find("#job-step").textContent = words.charAt(0).toUpperCase() + words.slice(1);
      find("#job-count").textContent = job.total ? `${thousands(job.done)} of ${thousands(job.total)}` : "";
      const bar = find("#job-bar");
      if (job.total) Object.assign(bar, { max: job.total, value: job.done });
      else bar.removeAttribute("value");
      ask(job.question);
    } else if (job && followed === -job.number) {
      followed = job.number;
      ended(job);
    }
    return running;
  }

  async function ended(job) {
    if (job.state === "failed") return toast(job.error, true);
    if (job.state === "cancelled") return toast("Cancelled; the model is as it was.");
    if (job.what === "proposal") return app.proposal.open(job.result);
    await store.load();
    location.hash = "#classes";
    return toast(job.what === "lesson" ? job.message : `Done: look at what was found. ${job.message}`);
  }

  /** Ask the person what the work wants to know. */
  async function ask(question) {
    if (!question || asked === question) return;
    asked = question;
    const yes = await confirmed(question, "Yes, the same", [], "No, different");
    asked = null;
    post("api/answer", { yes }).then(app.pulse, app.problem);
  }

  /** Put files that were dropped onto the page into an inbox, and discover it. */
  async function dropped(files) {
    const note = find("#uploaded");
    location.hash = "#discover";
    try {
      const { path, kept, refused } = await upload(files, false, note);
      find("#inbox").value = path;
      note.textContent = `${thousands(kept)} images are in ${path}. ${refused.slice(0, 5).join("; ")}`;
      if (kept) start(path, "auto");
    } catch (error) {
      app.problem(error);
    }
  }
  find("#files").onchange = (event) => event.target.files.length && dropped([...event.target.files]);

  function refresh() {
    app.proposal.list();
    numbers.refresh();
  }

  return { refresh, follow, dropped };
}
