// Package docsite builds a web site from Markdown documents. Its pages have a navigation, and a search that runs in the
// browser. [Build] renders the pages, [Handler] serves them, and [Site.Write] writes them to a directory.
package docsite
