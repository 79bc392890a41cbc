from typing import Any
import numpy as np
def render(state: Any) -> np.ndarray:
    return np.zeros((384,384,3),np.uint8)
