"""Names of files that a store must support."""

from __future__ import annotations

# Names with every character that some layer between us and a storage has been seen to escape, unescape or forget. There
# is no backslash: Azure takes it for a slash, and Delta escapes it in the names of partitions.
ODD_NAMES = [
    "a b", "a%20b", "a%b", "a+b", "a:b", "a#b", "a?b", "a&b=c", "a'b", 'a"b', "a*b", "a[b]", "a{b}", "a|b", "a~b", "a;b,c", "@a", "!a",
    "naïve", "日本", "\U0001f600", "\uffee", "A", "a", "_a", "a-b", "a.b",
    # One character and two that look the same; one that an escape makes of another; two that differ at their ends.
    "\u00e9", "e\u0301", "%41", "~" * 200 + "1", "~" * 200 + "2",
]  # fmt: skip
