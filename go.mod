module github.com/headgate/headgate

go 1.26

require (
	github.com/redis/rueidis v1.0.79
	github.com/sony/gobreaker/v2 v2.4.0
)

require (
	github.com/goccy/go-yaml v1.19.2 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
