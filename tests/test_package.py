import calibrant


def test_version_is_a_release_number() -> None:
    assert [part.isdigit() for part in calibrant.__version__.split(".")] == [True, True, True]
