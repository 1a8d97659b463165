// Package docs embeds the documentation, which Headgate serves as a website.
package docs

import "embed"

// Files are the documents and their pictures, with paths relative to this directory. Only the console screenshots that
// a document shows are included: the whole gallery of console/README.md would add megabytes to the binary.
//
//go:embed *.md *.json *.svg decisions howto pictures reference runbooks
//go:embed console/overview-light.png console/client-light.png console/enforcement-off-light.png
//go:embed console/rule-shadow-light.png console/rule-whatif-light.png console/registered-light.png console/store-down-light.png
var Files embed.FS
