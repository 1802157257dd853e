"""Contents and outputs in object storage: S3 and what speaks like it, files, or a :class:`Bucket` of your own. The queue has the keys only.

::

    store = objects.Store(client, objects.open_bucket("s3://work?region=eu-central-1"))
    submission = store.submit([pathlib.Path("a.tiff"), pathlib.Path("b.tiff")])

    @store.worker(concurrency=4)
    def convert(chunk, content):
        return to_png(content.read())  # becomes an object, whose key is the chunk's output

    convert.run()

``AsyncStore`` has the same for an ``AsyncClient``. The places of objects are those of ``sdk/objects`` in Go, so that producers and consumers
in several languages, and the program ``quern-objects``, work on one bucket.
"""

from ._async_store import AsyncStore
from ._bucket import Bucket, Content, Object
from ._files import Files
from ._s3 import S3, Credentials
from ._store import Store
from ._url import open_bucket

__all__ = ["AsyncStore", "Bucket", "Content", "Credentials", "Files", "Object", "S3", "Store", "open_bucket"]
