"""New topics in text, vectors of documents in the place of images: python text.py (half a minute, no download).

The documents are docstrings of packages that happycat itself needs, and the package is the class: ten packages are
labelled, three more turn up in an inbox. `# %%` starts a cell in editors that run a script as a notebook.
"""

# %% The documents: the long docstrings in the source of each package
import ast
import importlib.util
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from happycat import Happycat

KNOWN = (
    *("scipy.signal", "scipy.sparse", "scipy.interpolate", "scipy.spatial", "scipy.special"),
    *("sklearn.metrics", "sklearn.ensemble", "sklearn.cluster", "jinja2", "rich"),
)
NEW = ("scipy.optimize", "matplotlib.axes", "email")
EACH, LABELLED = 80, 50  # documents of a package, and how many of a known one are labelled


def documents(package: str) -> list[str]:
    """Docstrings of 300 characters and more; the source is parsed and never run."""
    folder = Path(importlib.util.find_spec(package).origin).parent
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
    found = {}
    for path in sorted(path for path in folder.rglob("*.py") if "tests" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            if text and len(text) >= 300:
                found[text] = None  # each once
    return list(found)


random = np.random.default_rng(0)
texts, truth, labelled = [], [], []
for package in (*KNOWN, *NEW):
    found = documents(package)
    chosen = random.permutation(len(found))[:EACH]
    texts += [found[i] for i in chosen]
    truth += [package] * len(chosen)
    labelled += [package in KNOWN and place < LABELLED for place in range(len(chosen))]
truth, labelled = np.array(truth), np.array(labelled)
print(f"{labelled.sum()} labelled documents of {len(KNOWN)} packages; {(~labelled).sum()} in the inbox")

# %% Vectors: latent semantic analysis, which looks at no label
words = TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.3, stop_words="english", token_pattern="[A-Za-z]{3,}")
vectors = make_pipeline(words, TruncatedSVD(150, random_state=0)).fit_transform(texts)

# %% Learn the labelled packages, then look for new ones in the inbox
cat = Happycat().fit(vectors[labelled], truth[labelled])
inbox, inbox_truth = vectors[~labelled], truth[~labelled]
found = cat.discover(inbox)
print(f"{len(found.new)} new classes found, {len(NEW)} there are")

# %% Look into each new class; a person gives it the name of the package that most of it is from, and merges twins
given = np.array([row.id for row in found.assigned])
named: dict[str, int] = {}
for new in found.new:
    kinds = Counter(inbox_truth[given == new].tolist())
    print(f"class {new}:", ", ".join(f"{number} {kind}" for kind, number in kinds.most_common(3)))
    name = kinds.most_common(1)[0][0]
    if name in named:
        cat.merge(named[name], new)
    elif name in NEW:
        named[name] = cat.name(new, name).id

# %% How many documents of the inbox are where they belong
right = cat.predict(inbox) == inbox_truth
known = np.isin(inbox_truth, KNOWN)
print(f"right: {right[known].mean():.0%} of the known packages' documents, {right[~known].mean():.0%} of the new ones'")
