/* Files that are dropped or chosen: sent one by one to a new folder beside the model. */

import { post, send } from "./api.js";
import { thousands } from "./dom.js";

const AT_ONCE = 4; // files that are sent beside each other

/** Send files; `labelled` if they are to be taught. Fulfilled with the folder, and which files are no images. */
export async function upload(files, labelled, note) {
  const { path } = await post("api/inbox", { teach: labelled });
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
  return { path, kept: done - refused.length, refused };
}

/** Listen to files that are dropped onto the page; `drop` gets them and the class that is below them, or null. */
export function followFiles(drop) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  let target = null;
  const point = (to) => {
    target?.classList.remove("target");
    target = to;
    target?.classList.add("target");
  };
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("files");
    point(event.target.closest?.("#view-classes [data-drop]") ?? null);
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget !== null) return;
    document.body.classList.remove("files");
    point(null);
  });
  addEventListener("drop", (event) => {
    document.body.classList.remove("files");
    const cls = target ? Number(target.dataset.drop) : null;
    point(null);
    if (!hasFiles(event)) return;
    event.preventDefault();
    drop([...event.dataTransfer.files], cls);
  });
}
