// Package objects keeps what chunks carry, and what comes of them, in object storage: S3 and what speaks like it, Google Cloud Storage,
// Azure Blob Storage, or files. The queue has the keys only.
//
// A producer uploads and then inserts with Submit. A consumer that calls Work gets an opened reader of its chunk's object and a writer; what
// it writes becomes an object, whose key is the chunk's output. Nothing is removed unless the caller asks for it: Sweep removes the objects
// of submissions that the server has no more, Remove those of one.
//
// The bucket is opened with gocloud.dev/blob, whose drivers the caller imports, so that a program links those that it uses:
//
//	import _ "gocloud.dev/blob/s3blob"
//
//	bucket, err := blob.OpenBucket(ctx, "s3://work?region=eu-central-1&prefix=quern-a/")
//	store := objects.Store{Client: c, Bucket: bucket}
//
// Keys are relative to the bucket and its prefix, so a consumer reads from no other place than the bucket that it was given, whatever a
// producer inserts. Contents are below "quern/contents/", a folder for each submission, and outputs below "quern/outputs/", likewise.
// Nothing else in the bucket is listed or removed.
package objects
