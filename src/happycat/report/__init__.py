"""Drawing only: figures, tables, pictures, the page."""
