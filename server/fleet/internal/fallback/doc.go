// Package fallback says what checks may use while peers are unreachable.
package fallback
