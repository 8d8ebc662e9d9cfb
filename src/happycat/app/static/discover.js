/* Discovering: an inbox by path or of dropped files, progress and cancel, the number of new classes. */

import { post, send, text } from "./api.js";
import { confirmed, toast } from "./dialogs.js";
import { find, make, thousands } from "./dom.js";

const AT_ONCE = 4; // files that are sent beside each other

export function makeDiscover(app) {
  const { store } = app;
  let followed = 0; // the discovery whose end was said last
  let drawn = null; // the review whose number is drawn

  async function start(path, number) {
    try {
      await post("api/discover", { path, new: number });
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

  /** Show how far a discovery is. */
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
    } else if (job && followed === -job.number) {
      followed = job.number;
      ended(job);
    }
    return running;
  }

  async function ended(job) {
    if (job.state === "failed") return toast(job.error, true);
    if (job.state === "cancelled") return toast("Cancelled; the model is as it was.");
    await store.load();
    location.hash = "#classes";
    return toast(`Done: look at what was found. ${job.message}`);
  }

  // Dropped files

  async function upload(files) {
    const note = find("#uploaded");
    location.hash = "#discover";
    try {
      const { path } = await post("api/inbox");
      const [waiting, refused] = [[...files], []];
      let done = 0;
      const work = async () => {
        for (let file = waiting.pop(); file; file = waiting.pop()) {
          const { refused: why } = await send(`api/inbox/file?name=${encodeURIComponent(file.name)}`, file);
          if (why) refused.push(`${file.name}: ${why}`);
          done += 1;
          note.textContent = `${thousands(done)} of ${thousands(files.length)} files`;
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      find("#inbox").value = path;
      const kept = done - refused.length;
      note.textContent = `${thousands(kept)} images are in ${path}. ${refused.slice(0, 5).join("; ")}`;
      if (kept) start(path, "auto");
    } catch (error) {
      app.problem(error);
    }
  }

  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("files");
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && document.body.classList.remove("files"));
  addEventListener("drop", (event) => {
    document.body.classList.remove("files");
    if (!hasFiles(event)) return;
    event.preventDefault();
    upload(event.dataTransfer.files);
  });
  find("#files").onchange = (event) => event.target.files.length && upload(event.target.files);

  // The number of new classes

  async function refresh() {
    const { review } = store.state;
    find("#estimate").hidden = review === null;
    if (review === null || drawn === review.id) return;
    drawn = review.id;
    find("#estimate-number").textContent = review.found;
    find("#estimate-words").textContent = review.estimated
      ? "The estimate, and how probable other numbers are." : "The number was given, not estimated.";
    const content = new DOMParser().parseFromString(await text("api/number"), "text/html");
    find("#chart").replaceChildren(...content.body.children);
    find("#again").hidden = review.root === null;
    if (!find("#inbox").value && review.root) find("#inbox").placeholder = review.root;
    const slider = find("#slider");
    Object.assign(slider, { max: Math.max(2 * review.found, 8), value: review.found });
    slider.oninput();
  }

  find("#slider").oninput = (event) => {
    const [number, { review, classes }] = [Number(find("#slider").value), store.state];
    find("#slider-value").textContent = number;
    find("#again-note").textContent = foretold(number - review.found, classes.filter((one) => one.kind === "new"));
    return event;
  };

  /** Which classes would probably become one or two with so many more or fewer of them. */
  function foretold(more, fresh) {
    if (!more) return "As many as now.";
    if (more > 0) {
      const loose = [...fresh].sort((a, b) => (a.separation ?? 1) - (b.separation ?? 1)).slice(0, more);
      return `Likely to become two: ${loose.map((one) => one.label).join(", ")}.`;
    }
    const alike = fresh.filter((one) => one.nearest.length).sort((a, b) => b.nearest[0][2] - a.nearest[0][2]);
    const pairs = alike.slice(0, -more).map((one) => `${one.label} with ${one.nearest[0][1]}`);
    return `Likely to become one: ${pairs.join(", ")}.`;
  }

  find("#again-start").onclick = async () => {
    const number = Number(find("#slider").value);
    const { history, version, review } = store.state;
    const found = [...history].reverse().find((one) => one.number <= version && one.what.startsWith("discover"));
    const details = [make("p", {}, "The corrections since the discovery are undone first; the history keeps them.")];
    if (!found || !(await confirmed(`Discover again with ${number} new classes?`, "Discover", details))) return;
    if (await app.act("go_to", { number: found.number - 1 }, "")) start(review.root, number);
  };

  return { refresh, follow };
}
