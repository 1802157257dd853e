// Package docs is the documents, for the server, which shows them at /docs.
package docs

import "embed"

// Files are all of them, by their paths below docs.
//
//go:embed *.md decisions/*.md formats/*.md img/strategies/*.svg
var Files embed.FS
