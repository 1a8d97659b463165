// Package report renders the results of a simulation as one self-contained HTML page, and as single SVG pictures.
package report
