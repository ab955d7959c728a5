//! What the judge says of values in their places.

use super::*;

/// The values of a text that are secrets.
fn found(text: &str) -> Vec<&str> {
    let mut list = Vec::new();
    search(text.as_bytes(), 0, text.len(), |value| list.push(&text[value.start..value.end]));
    list
}

/// Made up, and in two pieces, so that nobody takes it for a secret.
fn secret() -> String {
    ["k3JdTsQp", "Z1xYw8Lm"].concat()
}

#[test]
fn a_value_is_judged_by_its_name_in_every_syntax() {
    for before in [
        "password = ",
        "password: ",
        "\"dbPassword\": \"",
        "const API_KEY: &str = \"",
        "<apiToken>",
        "--admin-password ",
        "export SECRET_KEY=",
        "props.setProperty(\"mail.password\", \"",
        "dataSource.setPassword(\"",
        "GET /x?q=1&api_key=",
        "auth_token......: ",
        "| root_password | ",
        "password 7 ",
        "пароль: ",
        "密码：",
    ] {
        let text = format!("{before}{}\" and so on", secret());
        assert_eq!(found(&text), [secret()], "{text}");
    }
}

#[test]
fn random_values_count_near_telling_words() {
    for text in [
        "log in with ada / «»",
        "try it with the creds admin:«»",
        "the new token, shown once, is «»",
        "curl -u ada:«» https://acme.dev",
        "mysql -u root -p«» shop",
        "WiFi.begin(\"Office\", \"«»\")",
        "Password for the elastic user:\n  «»\n",
        "use `«»` as the bearer token",
        "defaults.set(\"«»\", forKey: \"refreshToken\")",
        "$ vault kv get -field=password kv/shop\n«»\n",
        "OpenSSL::HMAC.hexdigest(\"SHA256\", \"«»\", data)",
        "| id | login | password |\n|----|-------|----------|\n|  1 | ada | «» |\n",
        "service,name,password\njenkins,ci,«»\n",
        "INSERT INTO keys (id, owner, secret) VALUES (7, 'shop', '«»');",
    ] {
        let text = text.replace("«»", &secret());
        assert_eq!(found(&text), [secret()], "{text}");
    }
}

#[test]
fn names_of_something_else_and_values_that_are_words_are_none() {
    for text in [
        "password_file = «»",
        "token_id: «»",
        "public_key: «»",
        "The public key is «»",
        "key fingerprint is SHA256:«»",
        "token = tokenizer.encode2(text)",
        "let tokens = (avx2_cpuid::init(), sse2_cpuid::init());",
        "secret: shop-db-credentials-v2",
        "password: ${DB_PASSWORD_2}",
        "session:3f2a9c81d74f00aa3f2a9c81d74f00aa",
        "key: linux-x64-3f2a9c81d74f00aa3f2a9c81d74f00aa",
        "an ordinary line with «» in it",
        "«» is the name of the branch",
        "$ git rev-parse password-reset\n3f2a9c81d74f00aa3f2a9c81d74f00aa3f2a9c81\n",
        "| id | login | avatar |\n|----|-------|----------|\n|  1 | ada | «» |\n",
        "\"a\": 1, \"token\": 2, \"b\": 3\n\"a\": 1, \"sessionId\": \"«»\"",
    ] {
        let text = text.replace("«»", &secret());
        assert_eq!(found(&text), [""; 0], "{text}");
    }
}

/// Every word the judge knows is found by a keyword of the rule that calls it.
#[test]
fn every_telling_word_calls_the_judge() {
    let rules: toml::Table = toml::from_str(crate::OWN_RULES).unwrap();
    let rules = rules["rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule.get("judge").is_some()).unwrap();
    let keywords: Vec<&str> =
        rule["keywords"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect();
    let lists = [
        &vocabulary::PASSWORD_WORDS,
        &vocabulary::SECRET_WORDS,
        &vocabulary::SECRET_ENDINGS,
        &vocabulary::WEAK_WORDS,
        &vocabulary::ACTS,
    ];
    // Words that are common have a keyword with the sign behind them.
    let calls =
        |word: &str, key: &str| word.contains(key) || key.trim_matches(['=', ':', '"', '_', '.']) == word;
    let words = lists.iter().flat_map(|list| list.iter());
    let missing: Vec<&str> = words.filter(|word| !keywords.iter().any(|key| calls(word, key))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_may_become_a_secret_waits() {
    let waits = |text: &'static str| begun(text.as_bytes()).map(|start| &text[start..]);
    assert_eq!(waits("password="), None);
    assert_eq!(waits("password=a"), Some("a"));
    assert_eq!(waits("a token of love"), None);
    assert_eq!(waits("the token is k3"), Some("k3"));
    assert_eq!(waits("an ordinary k3"), None);
}

#[test]
fn a_password_of_dots_alone_is_no_secret() {
    for text in [
        "db1_password=......",
        "?user=ab12&password=??????",
        "password1: ,,,,,,,,",
        "root1_password=\"!!!!!!!!\"",
    ] {
        assert!(found(text).is_empty(), "{text}");
    }
}
