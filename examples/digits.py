"""New kinds of images, with a backbone that needs no internet: python digits.py (a minute; writes digits.cat).

It needs `pip install 'happycat[offline]'`. The images are scikit-learn's handwritten digits: seven are labelled, three
more turn up in an inbox. `# %%` starts a cell in editors that run a script as a notebook.
"""

# %% The images: 30 of each digit, of which 20 are labelled where the digit is known
from collections import Counter

import numpy as np
from sklearn.datasets import load_digits

from happycat import Happycat

KNOWN, NEW, EACH, LABELLED = range(7), range(7, 10), 30, 20

pixels, digits = load_digits(return_X_y=True)
chosen = np.concatenate([np.flatnonzero(digits == digit)[:EACH] for digit in range(10)])
images, truth = (pixels[chosen] * 255 / 16).round().astype(np.uint8).reshape(-1, 8, 8), digits[chosen]
labelled = np.isin(truth, KNOWN) & (np.arange(len(truth)) % EACH < LABELLED)
print(f"{labelled.sum()} labelled images of {len(KNOWN)} digits; {(~labelled).sum()} in the inbox")

# %% Learn the labelled digits; a digit's mirror image is none, and 96 pixels are plenty for one
cat = Happycat("tf_efficientnet_lite0", image_size=96, mirror=False).fit(images[labelled], truth[labelled])
print(f"{cat.fitted_.accuracy:.0f}% of {cat.fitted_.held_out} held-out images are right")

# %% Look for new ones in the inbox
inbox, inbox_truth = images[~labelled], truth[~labelled]
found = cat.discover(inbox)
print(f"{len(found.new)} new classes found, {len(NEW)} there are")
given = np.array([row.id for row in found.assigned])
for new in found.new:
    kinds = Counter(inbox_truth[given == new].tolist())
    print(f"class {new}:", ", ".join(f"{number} of the digit {kind}" for kind, number in kinds.most_common(3)))

# %% Keep the model: one file, without an image in it
cat.save("digits.cat")
again = Happycat.load("digits.cat")
print(f"digits.cat has {len(again.classes_)} classes and remembers the backbone {again.backbone_}")
