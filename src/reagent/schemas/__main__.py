"""Write the schema files anew after a field was added or changed."""

import json
from pathlib import Path

from reagent.atomic_io import atomic_write
from reagent.schemas import DOCUMENTS, generate_schema

if __name__ == "__main__":
    for name in DOCUMENTS:
        text = json.dumps(generate_schema(name), indent=2, ensure_ascii=False) + "\n"
        print(atomic_write(Path(__file__).with_name(f"{name}.schema.json"), text))
