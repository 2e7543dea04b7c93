"""What images without texts show, in words to try."""

from acqh.collection import Collection
from acqh.collection.types import STANDS_OUT

# What many photographs show, as people ask for it.
_THINGS = """dogs|cats|horses|birds|elephants|giraffes|zebras|cows|sheep|bears|butterflies|fish
flowers|trees|mountains|beach|snow|lake|forest|sunset|desert|waterfall|city street|skyscrapers
bridge|church|castle|cars|bus|train|bicycle|motorcycle|airplane|boats|kitchen|bathroom|bedroom
living room|pizza|cake|fruit|vegetables|coffee|wedding|children playing|baby|crowd of people
concert|football|baseball|tennis|skiing|skateboard|surfing|laptop|clock|teddy bear|umbrella|kites
fireworks""".replace("\n", "|").split("|")
# A thing is there if so many items stand out for it, and so many things are offered.
_FEW, _MOST = 3, 8


def examples_in(collection: Collection) -> list[str]:
    """Return things that a collection of images without texts shows, the clearest first.

    This takes a second or two; of a collection that has texts, or knows no words, it is nothing.
    """
    stats = collection.stats()
    if set(stats.coded_by) != {"image"} or "text" not in stats.encoders:
        return []
    matches = {}
    for thing in _THINGS:
        hits = collection.search(text=thing, k=_FEW, mode="meaning").hits
        matches[thing] = min((hit.match for hit in hits), default=0.0)
    clear = [thing for thing in _THINGS if matches[thing] > STANDS_OUT]
    return sorted(clear, key=lambda thing: -matches[thing])[:_MOST]
