/* All images of a class in a dialog, the surest first. */

import { find, make, percent, thousands } from "./dom.js";

const MOST = 120; // at once

/** The dialog of a class's images; returns a function that opens it for a class. */
export function makeAll(album, fill) {
  const dialog = find("#all");
  let [images, room] = [[], MOST];

  function show() {
    fill(find("#all-gallery"), images.slice(0, room), (i) => percent(album.probability[i]), images);
    find("#all-more").hidden = images.length <= room;
  }

  find("#all-more").onclick = () => ((room += 4 * MOST), show());
  find("#all-close").onclick = () => dialog.close();
  dialog.onclick = (event) => event.target === dialog && dialog.close();

  return (key) => {
    images = [...album.members.get(key)].sort((a, b) => album.probability[b] - album.probability[a]);
    room = MOST;
    const count = make("small", {}, `${thousands(images.length)} ${images.length === 1 ? "image" : "images"}`);
    find("#all-title").replaceChildren(album.glyph(key), make("bdi", {}, album.name(images[0])), " ", count);
    const bare = images.filter((i) => !album.thumbnail[i]).length;
    const named = bare ? ` ${thousands(bare)} have no small picture in this page and are shown by name.` : "";
    find("#all-note").textContent = `The most probable first; the percentage is the image's probability.${named}`;
    show();
    dialog.showModal();
    dialog.scrollTop = 0;
  };
}
