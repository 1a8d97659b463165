package jwt

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The examples of RFC 7515, appendix A, and RFC 8037, appendix A.
const (
	rfcClaims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	rfcHS256  = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." + rfcClaims + ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	rfcSecret = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
	rfcRS256  = "eyJhbGciOiJSUzI1NiJ9." + rfcClaims + "." +
		"cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU" +
		"Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_d" +
		"O--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0ig" +
		"cN_IoypGlUPQGe77Rw"
	rfcRSA = `{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL` +
		`-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdV` +
		`MTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}`
	rfcES256 = "eyJhbGciOiJFUzI1NiJ9." + rfcClaims + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
	rfcEC    = `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`
	rfcEdDSA = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
	rfcOKP   = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
)

func TestTokensOfTheRFCs(t *testing.T) {
	for name, tt := range map[string]struct {
		token  string
		keys   string
		secret string
	}{
		"HS256": {token: rfcHS256, secret: rfcSecret},
		"RS256": {token: rfcRS256, keys: rfcRSA},
		"ES256": {token: rfcES256, keys: rfcEC},
	} {
		t.Run(name, func(t *testing.T) {
			v := verifier(t, Config{Secret: must(decode(tt.secret)), Issuer: "joe"})
			v.config.Now = func() time.Time { return time.Unix(1300819379, 0) }
			if tt.keys != "" {
				v.fixedKeys = must(parseKeys([]byte(`{"keys":[`+tt.keys+`]}`), false))
			}
			if got := claim(t, v, tt.token, "http://example.com/is_root"); got != "true" {
				t.Errorf("is_root = %s, want true", got)
			}
			// One bit of the signature, and one of the claims.
			dot := strings.LastIndexByte(tt.token, '.')
			for _, at := range []int{dot + 1, dot - 10} {
				flipped := byte('A')
				if tt.token[at] == 'A' {
					flipped = 'B'
				}
				bad := tt.token[:at] + string(flipped) + tt.token[at+1:]
				if _, err := v.Verify(bad); !errors.Is(err, ErrSignature) && !errors.Is(err, ErrMalformed) {
					t.Errorf("changed at %d: error %v, want a wrong signature", at, err)
				}
			}
		})
	}
}

func TestEdDSAOfTheRFC(t *testing.T) {
	key := must(parseKeys([]byte(`{"keys":[`+rfcOKP+`]}`), false)).keys[0]
	dot := strings.LastIndexByte(rfcEdDSA, '.')
	a := algorithms["EdDSA"]
	if !a.acceptsKey(key.value) || !a.verify(key.value, []byte(rfcEdDSA[:dot]), must(decode(rfcEdDSA[dot+1:]))) {
		t.Error("the signature of RFC 8037 is not believed")
	}
	if a.verify(key.value, []byte(rfcEdDSA[:dot-1]), must(decode(rfcEdDSA[dot+1:]))) {
		t.Error("a signature of something else is believed")
	}
}
