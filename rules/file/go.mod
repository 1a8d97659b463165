module github.com/headgate/headgate/rules/file

go 1.26.0

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/headgate/headgate v0.1.0
)
