"""S3 for fsspec with boto3, for machines whose packages have boto3 but not s3fs. Names are those of s3fs, as far as the tests use them."""

from __future__ import annotations

import io
from typing import Any

import boto3
import botocore.exceptions
import botocore.handlers
from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

PART_BYTES = 5 << 20


class S3FileSystem(AbstractFileSystem):  # type: ignore[misc]
    protocol = "s3"
    cachable = False

    def __init__(self, endpoint_url: str, key: str, secret: str, **options: Any) -> None:
        super().__init__(**options)
        self.client = boto3.client("s3", "us-east-1", endpoint_url=endpoint_url, aws_access_key_id=key, aws_secret_access_key=secret)
        # Old versions wait for a minute when the answer to an empty object comes before "100 Continue".
        self.client.meta.events.unregister("before-call.s3", botocore.handlers.add_expect_header)

    def close(self) -> None:
        self.client.close()

    def _call(self, name: str, path: str, **arguments: Any) -> Any:
        bucket, _, key = self._strip_protocol(path).partition("/")
        if name != "list_objects_v2":
            arguments["Key"] = key
        try:
            return getattr(self.client, name)(Bucket=bucket, **arguments)
        except botocore.exceptions.ClientError as refused:
            if refused.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                raise FileNotFoundError(path) from refused
            raise

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        try:
            found = self._call("head_object", path)
        except FileNotFoundError:
            self.ls(path)
            return {"name": path, "type": "directory", "size": 0}
        return {"name": path, "type": "file", "size": found["ContentLength"], "LastModified": found["LastModified"]}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        bucket, _, key = self._strip_protocol(path).partition("/")
        prefix, found = f"{key}/" if key else "", []
        more: dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", path, Prefix=prefix, Delimiter="/", **more)
            for one in page.get("Contents", []):
                found.append({"name": f"{bucket}/{one['Key']}", "type": "file", "size": one["Size"], "LastModified": one["LastModified"]})
            for folder in page.get("CommonPrefixes", []):
                found.append({"name": f"{bucket}/{folder['Prefix'].rstrip('/')}", "type": "directory", "size": 0})
            if not page["IsTruncated"]:
                break
            more = {"ContinuationToken": page["NextContinuationToken"]}
        if not found:
            raise FileNotFoundError(path)
        return found if detail else [one["name"] for one in found]

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        self._call("put_object", path, Body=io.BytesIO(value))  # of empty bytes boto3 sends no length

    def _rm(self, path: str) -> None:
        self._call("delete_object", path)

    def rm(self, path: str, recursive: bool = False, maxdepth: Any = None) -> None:
        for one in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            self._rm(one)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, **_: Any) -> Any:
        return S3File(self, path, mode, block_size=PART_BYTES, autocommit=autocommit)


class S3File(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> Any:
        return self.fs._call("get_object", self.path, Range=f"bytes={start}-{end - 1}")["Body"].read()

    def _initiate_upload(self) -> None:
        self.upload = self.fs._call("create_multipart_upload", self.path)["UploadId"]
        self.parts: list[dict[str, Any]] = []

    def _upload_chunk(self, final: bool = False) -> bool:
        if not self.buffer.tell():
            return True
        number = len(self.parts) + 1
        done = self.fs._call("upload_part", self.path, UploadId=self.upload, PartNumber=number, Body=self.buffer.getvalue())
        self.parts.append({"PartNumber": number, "ETag": done["ETag"]})
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        self.fs._call("complete_multipart_upload", self.path, UploadId=self.upload, MultipartUpload={"Parts": self.parts})

    def discard(self) -> None:
        self.fs._call("abort_multipart_upload", self.path, UploadId=self.upload)
