"""Buckets by their URLs, which are those of gocloud.dev, so that one URL does for all languages."""

from __future__ import annotations

import urllib.parse

from ._bucket import Bucket
from ._files import Files
from ._s3 import S3


def open_bucket(url: str) -> Bucket:
    """The bucket at ``file:///srv/objects``, or at ``s3://name?region=eu-central-1``.

    S3 takes ``region``, ``prefix``, ``endpoint`` (the URL of a server that speaks like it) and ``use_path_style=true``. A ``Bucket`` of
    your own is given to ``Store`` as it is.
    """
    parts = urllib.parse.urlsplit(url)
    options = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "file" and not parts.netloc and parts.path:
        _known(url, options, {"no_tmp_dir", "create_dir", "metadata"})  # of gocloud.dev; it is always so here
        return Files(urllib.parse.unquote(parts.path))
    if parts.scheme == "s3" and parts.netloc and not parts.path.strip("/"):
        _known(url, options, {"region", "prefix", "endpoint", "use_path_style", "s3ForcePathStyle"})
        path_style = "true" in (options.get("use_path_style"), options.get("s3ForcePathStyle"))
        return S3(parts.netloc, region=options.get("region", ""), endpoint=options.get("endpoint", ""), path_style=path_style, prefix=options.get("prefix", ""))
    raise ValueError(f"{url!r} is neither file:///folder nor s3://bucket?region=...; for others give Store a Bucket of your own")


def _known(url: str, options: dict[str, str], names: set[str]) -> None:
    if unknown := sorted(options.keys() - names):
        raise ValueError(f"{url!r} has the option {unknown[0]}, which is none of {', '.join(sorted(names))}")
