"""The reference's module `delta.exceptions`."""

from tahoe.exceptions import *
from tahoe.exceptions import __all__ as __all__
