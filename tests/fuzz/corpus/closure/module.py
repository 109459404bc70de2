import os
from .os import (a,
 b)
import a, os as q
