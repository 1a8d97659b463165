// Package docs embeds the documentation, for the site that Headgate serves of it.
package docs

import "embed"

// Files are the documents and their pictures, with paths from this directory.
//
//go:embed *
var Files embed.FS
