"""Parquet and feather files as tables, read by Arrow in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calibrant.files.tables.table import CHUNK_ROWS, RecordTable, TableError
from calibrant.optional import require


class ParquetTable(RecordTable):
    """An Apache Parquet file."""

    format = "parquet"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        pa, parquet = require("pyarrow", extra="cli"), require("pyarrow.parquet", extra="cli")
        try:
            # Pages are read as they are needed: a single row group may be larger than memory.
            self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
            self.columns = self._file.schema_arrow.names
            self.n_rows = self._file.metadata.num_rows
        except (pa.ArrowException, ValueError, OSError) as error:
            raise TableError(f"{self.name} is not a parquet file, or is damaged: {error}") from error

    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
        pa = require("pyarrow", extra="cli")
        try:
            yield from self._file.iter_batches(batch_size=CHUNK_ROWS, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {error}") from error


class FeatherTable(RecordTable):
    """An Arrow IPC file, which is what feather is since its second version."""

    format = "feather"

    def __init__(self, path: Path, name: str = "") -> None:
        super().__init__(path, name)
        pa, ipc = require("pyarrow", extra="cli"), require("pyarrow.ipc", extra="cli")
        try:
            self._file = ipc.open_file(pa.memory_map(str(path)))
            self.columns = self._file.schema.names
        except (pa.ArrowException, ValueError, OSError) as error:
            raise TableError(f"{self.name} is not a feather (Arrow IPC) file, or is damaged: {error}") from error

    def _record_batches(self, columns: list[str] | None) -> Iterator[Any]:
        pa = require("pyarrow", extra="cli")
        try:
            for number in range(self._file.num_record_batches):
                whole = self._file.get_batch(number)
                whole.validate(full=True)  # offsets of damaged text would point outside of the file
                for start in range(0, whole.num_rows, CHUNK_ROWS):
                    part = whole.slice(start, CHUNK_ROWS)
                    yield part if columns is None else part.select(columns)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {error}") from error
