"""Contents and outputs in object storage: a folder of any `fsspec <https://filesystem-spec.readthedocs.io>`_ file system. The queue has the keys
only. Install it with ``pip install quern[objects]``, and the package of your storage, such as ``s3fs``.

::

    store = objects.Store(client, *fsspec.url_to_fs("s3://work/quern"))
    submission = store.submit([pathlib.Path("a.tiff"), pathlib.Path("b.tiff")])

    @store.worker(concurrency=4)
    def convert(chunk, content):
        return to_png(content.read())  # becomes an object, whose key is the chunk's output

    convert.run()

``AsyncStore`` has the same for an ``AsyncClient``. The places of objects are those of ``sdk/objects`` in Go, so that producers and consumers
in several languages, and the program ``quern-objects``, work on one bucket.
"""

from ._async_store import AsyncStore
from ._content import Content
from ._store import Store

__all__ = ["AsyncStore", "Content", "Store"]
