package file

import "reflect"

// NamedLimit is the mapping that a limit with a name is written as.
var NamedLimit = reflect.TypeFor[namedLimit]()
