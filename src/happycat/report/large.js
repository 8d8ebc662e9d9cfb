/* One image large: the original where it lies, or the page's small picture of it; arrows go to its neighbours. */

import { fileName, find, make, percent } from "./dom.js";

/** The address of a file: a key below the folder `originals`, or an absolute path; bytes that are no text, too. */
export function addressOf(originals, path) {
  const byte = (code) => `%${(code & 0xff).toString(16)}`;
  const encoded = [...path].map((letter) => {
    if (letter === "/") return letter;
    return /^[\udc80-\udcff]$/.test(letter) ? byte(letter.charCodeAt(0)) : encodeURIComponent(letter);
  });
  const absolute = /^([a-z]:)?\//i.test(path);
  return (absolute ? `file:///` : originals) + encoded.join("").replace(/^\//, "");
}

/** The dialog for one image; returns a function that opens it for an image of a list. */
export function makeLarge(album, originals, tip) {
  const dialog = find("#large");
  const part = (name) => find(`#large-${name}`);
  let [images, at] = [[], 0];

  /** Show the original as soon as it is there, the small picture before and if it never is. */
  function frame(i) {
    const alt = `${fileName(album.path[i])}: ${album.about(i)}`;
    const small = album.thumbnail[i] && make("img", { src: album.thumbnail[i], alt });
    part("frame").replaceChildren(small || make("p", { class: "note" }, fileName(album.path[i])));
    part("note").textContent = originals ? "" : "The page has no link to the original.";
    part("original").hidden = !originals;
    if (!originals) return;
    part("original").href = addressOf(originals, album.path[i]);
    if (location.protocol !== "file:") return; // nothing is fetched
    const image = make("img", { alt });
    image.onload = () => {
      if (i !== images[at]) return;
      part("frame").replaceChildren(image);
      part("note").textContent = `The original, ${image.naturalWidth} × ${image.naturalHeight} pixels.`;
    };
    image.onerror = () => {
      if (i !== images[at]) return;
      const shown = small ? " This is the page's small picture." : "";
      part("note").textContent = `The original is no longer where it was, or cannot be shown here.${shown}`;
    };
    image.src = part("original").href;
  }

  function show() {
    const i = images[at];
    part("class").replaceChildren(album.glyph(album.keys[i]), make("bdi", {}, album.name(i)));
    const unsure = album.unsure[i] ? ", unsure" : "";
    part("words").textContent = `Probability ${percent(album.probability[i])}${unsure}`;
    part("path").textContent = album.path[i];
    part("place").textContent = images.length > 1 ? `${at + 1} of ${images.length}` : "";
    part("back").disabled = part("next").disabled = images.length < 2;
    frame(i);
  }

  function step(by) {
    at = (at + by + images.length) % images.length;
    show();
  }

  part("back").onclick = () => step(-1);
  part("next").onclick = () => step(1);
  part("close").onclick = () => dialog.close();
  dialog.onclick = (event) => event.target === dialog && dialog.close();
  dialog.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) step(by);
  };

  return (i, order = [i]) => {
    images = [...order];
    at = images.indexOf(i);
    tip.hide();
    show();
    dialog.showModal();
  };
}
