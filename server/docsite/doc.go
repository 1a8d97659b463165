// Package docsite makes a web site of Markdown documents: pages with navigation, and a search that runs in the browser.
// [Build] renders the pages; a [Site] serves them or writes them to a directory.
package docsite
