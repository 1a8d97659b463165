// Package report shows the results of a simulation as one self-contained HTML page, and as single pictures.
package report
