"""Hook of mkdocs: links from docs/ to files outside it lead to the repository, where they work as they are."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

LINK = re.compile(r"\]\((\.\./[^)#\s]+)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """The page's text with its links out of docs/ replaced."""
    folder, root = Path(config["docs_dir"], page.file.src_uri).parent, Path(config["docs_dir"]).parent

    def replaced(match: re.Match[str]) -> str:
        target = (folder / match[1]).resolve()
        if target.is_relative_to(config["docs_dir"]) or not target.exists():
            return match[0]
        return f"]({config['repo_url'].rstrip('/')}/blob/main/{PurePosixPath(target.relative_to(root.resolve()))}"

    return LINK.sub(replaced, markdown)
