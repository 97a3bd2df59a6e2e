"""A writer of `test_ledger`: `python -m tests.catalog.ledger URL SEED COUNT` moves money between two tables, and prints
a line for each transfer that was acknowledged, or, with a question mark, may have been made.
"""

from __future__ import annotations

import random
import sys

import tahoe
from tahoe.errors import CatalogUnavailableError, DeltaConcurrentModificationException, StorageUnavailableError

TABLES = ("bank.one", "bank.other")


def transfer(catalog: tahoe.Catalog, amount: int) -> bool:
    try:
        with catalog.transaction() as changes:
            for name, change in zip(TABLES, (-amount, amount), strict=True):
                changes.table(name).update({"money": f"money + {change}"}, "account = 1")
    except DeltaConcurrentModificationException:
        return False
    return True


def main() -> None:
    url, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    catalog, chance, done = tahoe.Catalog(url), random.Random(seed), 0
    while done < count:
        amount = chance.randrange(1, 100)
        try:
            if transfer(catalog, amount):
                done += 1
                print(amount, flush=True)
        except (CatalogUnavailableError, StorageUnavailableError):
            print(f"?{amount}", flush=True)


if __name__ == "__main__":
    main()
