/* Labels of the map: each beside the marks of its class, and none on a mark or on another label. */

const CELL = 4; // pixels of the grid that knows where marks are
const HEIGHT = 18; // of a label
const [STEP, FAR] = [8, 320]; // how finely and how far around the middle of its marks a place is looked for
const REACH = 56; // pixels from a label to the nearest mark of its class, at most

/**
 * Places for labels, in their order of importance: {x, y, half, near} for each, or null where there is none.
 * `labels`: {half, marks}, half the width and the marks [x, y] of its class; `marks`: all marks, of `radius`; `taken`:
 * boxes {x, y, half, tall} that are not free. `near` is the mark of its class that is nearest to the label.
 */
export function placeLabels(labels, { marks, radius, width, height, taken = [] }) {
  const free = freeBoxes(marks, radius, width, height);
  const boxes = [...taken];
  const clear = (x, y, half) =>
    free(x - half, y - HEIGHT / 2, x + half, y + HEIGHT / 2) &&
    !boxes.some((box) => Math.abs(box.x - x) < box.half + half && Math.abs(box.y - y) < (box.tall ?? HEIGHT / 2) + HEIGHT / 2);
  return labels.map(({ half, marks: own }) => {
    const middle = [0, 1].map((axis) => own.map((mark) => mark[axis]).sort((a, b) => a - b)[own.length >> 1]);
    for (const [x, y] of around(middle)) {
      if (!clear(x, y, half)) continue;
      const near = nearest(own, x, y, half);
      if (gap(near, x, y, half) > REACH) continue;
      const place = { x, y, half, near };
      boxes.push(place);
      return place;
    }
    return null;
  });
}

/** How far a mark is from a label's box. */
export function gap([a, b], x, y, half) {
  return Math.hypot(Math.max(0, Math.abs(a - x) - half), Math.max(0, Math.abs(b - y) - HEIGHT / 2));
}

function nearest(marks, x, y, half) {
  let [best, least] = [null, Infinity];
  for (const mark of marks) {
    const distance = gap(mark, x, y, half);
    if (distance < least) [best, least] = [mark, distance];
  }
  return best;
}

/** Places around a middle, the nearest first. */
function* around([x, y]) {
  yield [x, y];
  for (let far = STEP; far <= FAR; far += STEP) {
    const turns = Math.ceil((2 * Math.PI * far) / (2 * STEP));
    for (let n = 0; n < turns; n++) {
      const angle = -Math.PI / 2 + (2 * Math.PI * n) / turns; // above the middle first
      yield [x + far * Math.cos(angle), y + far * Math.sin(angle)];
    }
  }
}

/** A function that says whether a box is within the map and has no mark: a table of sums over a grid of cells. */
function freeBoxes(marks, radius, width, height) {
  const [columns, rows] = [Math.ceil(width / CELL), Math.ceil(height / CELL)];
  const used = new Uint8Array(columns * rows);
  const cell = (value, count) => Math.min(count - 1, Math.max(0, Math.floor(value / CELL)));
  for (const [x, y] of marks) {
    const [left, right] = [cell(x - radius, columns), cell(x + radius, columns)];
    for (let row = cell(y - radius, rows); row <= cell(y + radius, rows); row++) {
      used.fill(1, row * columns + left, row * columns + right + 1);
    }
  }
  const wide = columns + 1;
  const sums = new Int32Array(wide * (rows + 1));
  for (let row = 0; row < rows; row++) {
    let along = 0;
    for (let column = 0; column < columns; column++) {
      along += used[row * columns + column];
      sums[(row + 1) * wide + column + 1] = sums[row * wide + column + 1] + along;
    }
  }
  return (left, top, right, bottom) => {
    if (left < 2 || top < 2 || right > width - 2 || bottom > height - 2) return false;
    const [a, b] = [cell(left, columns), cell(right, columns) + 1];
    const [c, d] = [cell(top, rows), cell(bottom, rows) + 1];
    return sums[d * wide + b] - sums[c * wide + b] - sums[d * wide + a] + sums[c * wide + a] === 0;
  };
}
