// Package chart draws lines and bars as SVG pictures that follow the light or dark colors of the page they are in.
package chart
