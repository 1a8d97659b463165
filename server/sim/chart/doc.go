// Package chart draws line charts and bar charts as SVG. A chart uses the light or dark colors of the page it is in.
package chart
