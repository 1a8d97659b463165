// Package lease takes units from a shared store ahead of their use, so that one store call serves many decisions.
package lease
