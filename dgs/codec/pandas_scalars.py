"""Forms of pandas' scalars, which rows of data frames hold. pandas is imported when such a value is decoded, and not before.

A zone of pytz, which pandas gives to times, travels as pytz itself pickles it.

>>> import pandas as pd
>>> from dgs import codec
>>> codec.decode(codec.encode(pd.Timestamp("2024-07-01 05:00:00.123456789", tz="Europe/Berlin")))
Timestamp('2024-07-01 05:00:00.123456789+0200', tz='Europe/Berlin')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dgs.codec.forms import Form
from dgs.codec.scalars import zone_back, zone_form


def _number(value: Any) -> list[Any]:
    """Return the number of a time and its unit."""
    plain = value.asm8
    return [int(plain.astype(np.int64)), np.datetime_data(plain.dtype)[0]]


def _to_timestamp(value: Any) -> list[Any]:
    return [*_number(value), zone_form(value.tzinfo), value.fold]


def _from_timestamp(content: Any) -> Any:
    import pandas as pd

    number, unit, zone, fold = content
    found = pd.Timestamp(np.datetime64(number, unit))
    if zone is None:
        return found.replace(fold=fold)
    return found.tz_localize("UTC").tz_convert(zone_back(zone))


def _from_timedelta(content: Any) -> Any:
    import pandas as pd

    number, unit = content
    return pd.Timedelta(np.timedelta64(number, unit))


def _from_nat(_content: Any) -> Any:
    import pandas as pd

    return pd.NaT


def _from_na(_content: Any) -> Any:
    import pandas as pd

    return pd.NA


FORMS = {
    "Timestamp": Form(40, (), _to_timestamp, _from_timestamp),
    "Timedelta": Form(41, (), _number, _from_timedelta),
    "NaTType": Form(42, (), lambda _: None, _from_nat),
    "NAType": Form(43, (), lambda _: None, _from_na),
}
"""Forms by the names of their types, since pandas is not imported."""
