//! The word lists of the judge: names of secrets, names of what is no secret, and placeholders for secrets. Decides nothing.

use std::sync::LazyLock;

/// Words, those with the same first byte together.
#[derive(Debug)]
pub(super) struct WordList {
    words: Vec<&'static str>,
    /// Where the words with each first byte begin.
    first: Vec<u16>,
}

pub(super) type List = LazyLock<WordList>;

impl WordList {
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static str> {
        self.words.iter().copied()
    }
}

/// Whether a list has a word, in any case.
pub(super) fn has(list: &List, word: &[u8]) -> bool {
    let Some(first) = word.first().map(|first| usize::from(first.to_ascii_lowercase())) else { return false };
    let (from, to) = (usize::from(list.first[first]), usize::from(list.first[first + 1]));
    list.words[from..to]
        .iter()
        .any(|one| one.len() == word.len() && one.as_bytes().eq_ignore_ascii_case(word))
}

fn list(text: &'static str) -> WordList {
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    words.sort_unstable();
    let starts = |byte: usize| words.partition_point(|word| usize::from(word.as_bytes()[0]) < byte) as u16;
    let first = (0..=256).map(starts).collect();
    WordList { words, first }
}

/// Words for a password.
pub(super) static PASSWORD_WORDS: List = LazyLock::new(|| {
    list(
        "adminpw authpass authtok bindpw clave contrasena contraseña dbpass dbpassword dbpwd haslo identified
         kennwort keypass masterauth mysqlpwd parola pass passcode passe passord passphrase passwd password
         passwort preshared psk psksecret pw pwd requirepass rootpw rpcpassword senha sifre sshpass storepass
         sudopass userpass userpassword userpwd wachtwoord wpapsk",
    )
});

/// Words for a token or a key that must not be known.
pub(super) static SECRET_WORDS: List = LazyLock::new(|| {
    list(
        "accesskey accesstoken apikey apikeys apisecret apitoken appsecret authkey authorization authtoken
         bearer clientsecret cred credential credentials creds deploykey encryptionkey hmac jsessionid jwt jwtsecret
         licensekey masterkey mnemonic passwords pepper phpsessid privatekey refreshtoken routingkey secret secretkey
         secrets seedphrase sharedkey sharedsecret signingkey token tokens webhooksecret",
    )
});

/// What words for a secret end with.
pub(super) static SECRET_ENDINGS: List = LazyLock::new(|| {
    list("accesskey apikey authkey credential credentials privatekey secret secretkey token")
});

/// Words for what may be a secret.
pub(super) static WEAK_WORDS: List = LazyLock::new(|| {
    list(
        "assertion auth code cookie csrf dsn encrypt license otp salt seed session sig signature totp webhook
         xsrf",
    )
});

/// What makes a key a secret.
pub(super) static KEY_HEADS: List = LazyLock::new(|| {
    list(
        "access account activation admin aes api app application auth aws azure backup bearer bot cdn cipher
         client consumer crypto data datadog db dd deepl deploy deployment encrypt encryption events fernet
         function functions gcp google gossip groq hmac ingest install instrumentation integration jwt
         license logging mailgun maps master npm ntp openai org preshared private product project publish
         push pusher pypi recovery registry rest root routing sas search secret secretaccess sendgrid server
         service session shared sign signing site ssh storage stream stripe subscription symmetric team
         telemetry twilio unseal user vapid weather webhook wep wireguard wpa write x",
    )
});

/// What makes a key none.
pub(super) static KEY_NEGATIVE: List = LazyLock::new(|| {
    list(
        "cache composite config context dict field foreign group hash host hot i18n idempotency index item
         json known lookup map metadata natural object option partition primary pub public publishable query
         restore row setting short socket sort surrogate translation unique value websocket",
    )
});

/// What may stand behind a telling word and change nothing.
pub(super) static NEUTRAL_TAILS: List = LazyLock::new(|| {
    list(
        "a admin an and app as b64 base base64 be by bytes current data default dev encoded env est for hex
         in is ist lautet literal live local main my new of old on only our plain plaintext please primary
         prod production raw read ro root rw secondary stage staging str string test text that the this to
         user v value values was with write your",
    )
});

/// What stands behind a telling word where it is about a secret.
pub(super) static NEGATIVE_TAILS: List = LazyLock::new(|| {
    list(
        "accessor age alg algorithm algorithms alias arn at attempt attempts attribute audience
         authentication backend bits bucket budget cache cer challenge changed checksum claims class client
         column command confirmation count counts created crt csv days digest dir disabled domain duration
         enabled encoder encrypted endpoint env error errors exception expiration expires expiry factory
         field file files fingerprint format generator get go group groups handler hash hashed hasher hashers
         header headers helper hint html id ids index info issuer java js json kind kinds label len length
         lexer lifetime limit limits list location lookup management manager map maps max md memory method
         methods min mode name names ops order param parameter parser path paths pattern payload pem policy
         prefix prompt protected provider providers py query rate ref reference refs regex required reset
         resolver revision ring rotation rounds rs samesite schema scope scopes security separators server
         service set sh size source spec state status storage store stores stream strength suffix table
         timeout toml ts ttl txt type types updated uri url usage used validation validator verification
         verifier version versions xml yaml yml",
    )
});

/// Words for signing in and for what needs a password.
pub(super) static ACTS: List = LazyLock::new(|| {
    list(
        "ftp account adduser admin auth authenticate authentication authorization basic basicauth benutzer cipher
         community connect connection createuser cred credential credentials creds digest dsn encrypt fernet
         hmac identifiant identified kennung keystore logging login logon mask mysqli mysqlsh obscure pdo root sasl
         signin snmp sqlplus superuser totp unlock unseal user useradd username users usuario wifi wireless
         wpa zugangsdaten",
    )
});

/// What joins a value to telling words behind it.
pub(super) static BEHIND: List = LazyLock::new(|| list("as for forkey is jwt was where"));

/// Commands that print a new secret.
pub(super) static PRINTERS: List = LazyLock::new(|| list("apg makepasswd pwgen"));

/// Commands that print something else, whatever they are asked about.
pub(super) static OTHER_COMMANDS: List = LazyLock::new(|| {
    list(
        "base32 cksum fingerprints git grep hashes jq ls md5sum rev sha1sum sha256sum sha512sum shasum stat uname wc",
    )
});

/// Names of values that are no secrets.
pub(super) static NEGATIVE_NAMES: List = LazyLock::new(|| {
    list(
        "accessor addr address algorithm alt appid arn branch bucket build challenge channel checksum class
         client clientid cnonce commit container crv data date digest directory e email etag expires file
         fingerprint gid h1 hash host hostname href id ids image integrity invoice isbn iv job kid mac md5
         model n name node nonce object offset opaque order path pid playlist pod port public qop realm ref
         region request resource rev revision run seq serial sha sha1 sha256 sha512 sid size sku span src
         style subject subscription tag tenant thread thumbprint time timestamp title trace type uid uri url
         verifier version video x y",
    )
});

/// Words that say of a value near them that it is no secret.
pub(super) static NEGATIVE_NEAR: List = LazyLock::new(|| {
    list(
        "branch certificate challenge checksum commit digest etag expires file finger fingerprint hash id ids
         image integrity md5 nonce path public publickey request revision serial sha sha1 sha256 sum trace
         uid url uuid version",
    )
});

/// Words between a name and its value that mean nothing.
pub(super) static WRAPPERS: List = LazyLock::new(|| {
    list(
        "android b b64 base64 base64.b64decode body br buffer.from byte bytes bytes.fromhex content default encode f fallback from_slice getbytes hex hex.decode hex.decodestring l
         literal n new noop ok q qq r raw rb s some str string text to_string u val value values",
    )
});

/// Wrappers that are names themselves.
pub(super) static VALUE_NAMES: List =
    LazyLock::new(|| list("android body content default fallback string text val value values"));

/// Types that stand between a name and its value.
pub(super) static TYPES: List = LazyLock::new(|| {
    list(
        "any byte char const cow cstr final let lpcwstr nsstring object option readonly secretstring
         securestring static static_str str string text u8 unknown var varchar wchar_t",
    )
});

/// Short words and abbreviations.
pub(super) static ABBREVIATIONS: List = LazyLock::new(|| {
    list(
        "admin linux ubuntu debian redis mongo postgres mysql sqlite nginx docker github gitlab deploy keycloak a abc acl acr ad aes amd amqp an api arm arn as ascii at aws b b64 be bin by c ca cbc cd cf cfg ci
         cidr cmd cn crud css csv ctr ctx db dc de dev dns do dst ecb ecs eks env err es etc eu fn fs gb gcm
         gcp gid gke go grpc guid h hex hmac hs html http https iam id idx if in io ios ip is it jpg js json
         jwk jwt kb kms kv ldap len lib log mac mb md md5 me mfa mqtt ms msg my mysql nfs nginx no npm ns num
         of ok on opt or os otp ou pdf pg pgsql pid pk pkcs pkg png pnpm priv prod psql ptr pub pw pwd py qa
         rds req res rgb ro rpc rs rsa rw rx sasl sdk sh sha sid sk smb sms so sql src srv ssh ssl std stg
         str sub svc svg tcp tls tmp to ts ttl tx udp ui uid uk up uri url us usr utf uuid v var vm vpc vpn
         we win x x86 xml xyz y yaml",
    )
});

/// Units behind numbers.
pub(super) static UNITS: List = LazyLock::new(|| {
    list("b d e em g gb gib h hz k kb khz kib m mb mhz mib ms ns pt px rem s tb us v w x y")
});

/// Endings of files and hosts.
pub(super) static EXTENSIONS: List = LazyLock::new(|| {
    list(
        "cer cfg com conf crt css csv dev dll env exe go gz htm html ini internal io java jks jpeg jpg js
         json jsx key kt local lock log md net org p12 pem pfx png pub py rs service sh so sock sql svg tgz
         toml ts tsx txt xml yaml yml zip",
    )
});

/// What is written in a secret's place.
pub(super) static PLACEHOLDERS: List = LazyLock::new(|| {
    list(
        "**** ----- .... 0-9 0123456789 12345678 a-f a-z abcdefgh change-me change_me changeme dummy example
         fake filtered fixme foobar getenv hidden insert localhost lorem masked mock mypassword not-a- not_a_
         notasecret null os.environ placeholder process.env qwerty redacted replace sample secrets. test_key
         testkey todo undefined xxxx your- your_ yourkey yourpass",
    )
});

/// What values begin with that are public, or refer to something.
pub(super) static PUBLIC_PREFIXES: List = LazyLock::new(|| {
    list(
        "aaaab3nza aaaac3nza aaaae2vjz application/ arn: aws: base64, ca-pub- data: ecdsa- enc( enc[ env:
         file: gcp: http: https: image/ keyring: md5 mfkw op:// pk_ projects/ public ref+ secret: sha1 sha256
         sha384 sha512 ssh- ssm: text/ u+ urn: vault:",
    )
});
