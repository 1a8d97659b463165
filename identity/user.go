package identity

import "strconv"

// A UserSource is a part of a request that may name its user.
type UserSource uint8

// The sources of the attribute user.
const (
	UserFromBasic      UserSource = 1 + iota // the user of Authorization: Basic, without a check of the password
	UserFromToken                            // the claim sub of a verified token
	UserFromHeader                           // the header Config.UserHeader, from a trusted proxy
	UserFromBasicAndIP                       // the user of Basic with the client's address: "alice from 192.0.2.1"
)

var userSources = [...]string{
	UserFromBasic: "basic", UserFromToken: "token", UserFromHeader: "header", UserFromBasicAndIP: "basic_and_ip",
}

func (s UserSource) String() string {
	if s >= UserFromBasic && int(s) < len(userSources) {
		return userSources[s]
	}
	return "source " + strconv.Itoa(int(s))
}

// findUser returns the user. It is looked up once per request.
func (a *Attributes) findUser() string {
	if !a.firstLookup(lookupUser) {
		return a.user
	}
	for _, source := range a.identifier.userFrom {
		switch source {
		case UserFromBasic:
			a.user = a.basicUser("", "")
		case UserFromBasicAndIP:
			if a.findClient(); a.ip != "" {
				a.user = a.basicUser(" from ", a.ip)
			}
		case UserFromToken:
			if claims, err := a.token(); err == nil && claims != nil && claims.Verified() {
				a.user = a.claim("sub")
			}
		case UserFromHeader:
			a.user = a.proxyUser()
		}
		if a.user != "" {
			break
		}
	}
	return a.user
}

// proxyUser returns the user in Config.UserHeader from a trusted proxy. If there are several lines, they must be equal,
// because one of them may come from the client.
func (a *Attributes) proxyUser() string {
	lines := a.endToEndLines(a.identifier.user)
	if len(lines) == 0 || !a.FromProxy() {
		return ""
	}
	var user uniqueValue
	for _, line := range lines {
		user.add(trimAnySpace(line))
	}
	if user.differs || hasControl(user.value) {
		return ""
	}
	return a.identifier.hashIfLong(user.value)
}
