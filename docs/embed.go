// Package docs embeds the documentation, for the site that Headgate serves of it.
package docs

import "embed"

// Files are the documents and their pictures, with paths from this directory. Of the many pictures of the console it has
// those that a document shows; the gallery in console/README.md would make the program megabytes larger.
//
//go:embed *.md *.json *.svg decisions howto pictures runbooks
//go:embed console/overview-light.png console/client-light.png console/enforcement-off-light.png
//go:embed console/rule-shadow-light.png console/rule-whatif-light.png console/registered-light.png
var Files embed.FS
