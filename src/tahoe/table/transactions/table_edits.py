"""Changes of the table configuration in a transaction: properties, constraints, protocol, features, domains.

Protocol: "Change Metadata", "Protocol Evolution", "Domain Metadata". The rules are in `protocol`. This module has the
checks that need the table's rows or files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tahoe.errors import CheckConstraintViolatedError, NewConstraintViolatedError
from tahoe.protocol.changes.assigned_numbers import with_row_ids_kept
from tahoe.protocol.changes.column_values import identity_columns
from tahoe.protocol.changes.constraints import Constraint
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.configuration.declared_keys import PRIMARY, Key, constraint_text
from tahoe.protocol.configuration.feature_drop import droppable_feature
from tahoe.protocol.configuration.features import check_writable
from tahoe.protocol.configuration.row_tracking import DOMAIN as ROW_TRACKING
from tahoe.protocol.log.actions import DomainMetadata
from tahoe.protocol.log.tags import is_tag
from tahoe.protocol.types.predicate import Column, Comparison, Literal, Predicate
from tahoe.table.arguments import FLAG, KEY_KIND, LONG, NAMES, REFERENCE, TEXT, TEXTS, or_none, takes
from tahoe.table.reading.constraints import check_rows
from tahoe.table.transactions.feature_traces import check_given_up, domains_of
from tahoe.table.transactions.fitting_files import check_files_fit
from tahoe.table.transactions.open_transaction import OpenTransaction

# Domains with this prefix belong to features. Protocol: "Domain Metadata".
_SYSTEM_DOMAINS = "delta."


class TableEdits(OpenTransaction):
    """A transaction that can change the table configuration."""

    @takes(properties=TEXTS)
    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set known or user-defined table properties. `delta.feature.<name>` = supported adds a feature; `comment` is
        the description.

        Raises:
            InvalidPropertyError: an unknown property, one that only writers set, or an invalid value.
            DeltaProtocolError: the property enables a rule that tahoe does not enforce yet.
        """
        changed = self._configuration.with_properties(properties, self.table.env.new_id)
        self._define(changed, "SET TBLPROPERTIES", {"properties": dict(properties)})

    @takes(names=NAMES, if_exists=FLAG)
    def unset_properties(self, names: Iterable[str], *, if_exists: bool = False) -> None:
        """Remove table properties, so that their defaults apply.

        Raises:
            InvalidPropertyError: a property that is not set, or that only writers set.
        """
        asked = list(names)
        changed = self._configuration.without_properties(asked, if_exists=if_exists)
        self._define(changed, "UNSET TBLPROPERTIES", {"properties": asked, "ifExists": if_exists})

    @takes(name=TEXT, expression=TEXT)
    def add_constraint(self, name: str, expression: str) -> None:
        """Add a CHECK constraint, an SQL condition that every row must satisfy.

        Existing rows, and rows that this transaction appends, are checked first.

        Raises:
            NewConstraintViolatedError: an existing row violates it.
            ConstraintExistsError, InvalidArgumentError: the table has a constraint of that name; the name is empty.
            UnsupportedOperationError, ColumnNotFoundError: it cannot be evaluated without Spark.
        """
        self._check_open()
        changed = self._configuration.with_constraint(name, expression)
        self._check_rows(Constraint(name=name, expression=expression))
        self._define(changed, "ADD CONSTRAINT", {"name": name, "expr": expression})

    @takes(name=TEXT, columns=NAMES, kind=KEY_KIND, references=REFERENCE, referenced_columns=NAMES, rely=FLAG)
    def add_key(
        self,
        name: str,
        columns: Sequence[str],
        kind: str = PRIMARY,
        *,
        references: str | Sequence[str] = (),
        referenced_columns: Sequence[str] = (),
        rely: bool = False,
    ) -> None:
        """Declare a key, which is not enforced: no row is looked at. `Table.check_keys` looks for rows that violate it.

        Args:
            columns: top-level columns.
            kind: `PRIMARY KEY`, `UNIQUE` or `FOREIGN KEY`.
            references: the table of a foreign key: its location as a string, or the parts of its name in a catalog.
            referenced_columns: columns of that table, as many; none for its primary key.
            rely: say that the rows satisfy the key, so that programs may rely on it.

        Raises:
            InvalidKeyError: a column does not exist or is nested, or the table has another primary key.
            ConstraintExistsError, InvalidArgumentError: the table has a constraint of that name; the name is empty.
        """
        key = Key(
            name=name,
            kind=kind,
            columns=tuple(columns),
            rely=rely,
            references=tuple(references),  # `takes` has made these the parts of a name
            referenced_columns=tuple(referenced_columns),
        )
        self._define(self._configuration.with_key(key), "ADD CONSTRAINT", {"name": name, "expr": str(key)})

    def _check_rows(self, constraint: Constraint) -> None:
        """Check a condition on all rows, and add them to the read set."""
        is_as_it_was = (
            not self._draft.adds
            and not self._draft.removed_files
            and not self._draft.deleted
            and self._configuration.schema == self.snapshot.schema
        )
        if self._check is not None and is_as_it_was:
            self._check(self.snapshot, constraint)
        else:
            current = self._current
            try:
                for add in [*self.snapshot.live.adds(), *self._draft.adds]:
                    for _, rows in self._rows.at(current, add, self._left(add)):
                        check_rows(rows, [constraint], current.schema, table=self.table.url, zone=self.table.log.zone)
            except CheckConstraintViolatedError as error:
                raise NewConstraintViolatedError(**error.parameters) from None
        self.scan(None)  # all rows were read: a winner that adds some conflicts

    @takes(name=TEXT, if_exists=FLAG)
    def drop_constraint(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a CHECK constraint or a declared key.

        Raises:
            ConstraintNotFoundError: the table has no constraint of that name.
        """
        expression = constraint_text(self._configuration.properties, name)
        changed = self._configuration.without_constraint(name, if_exists=if_exists)
        parameters = {"existed": "false"} if expression is None else {"expr": expression, "existed": "true"}
        self._define(changed, "DROP CONSTRAINT", {"name": name, **parameters})

    @takes(reader_version=LONG, writer_version=LONG, features=NAMES)
    def upgrade_protocol(
        self, reader_version: int | None = None, writer_version: int | None = None, *, features: Iterable[str] = ()
    ) -> None:
        """Raise the protocol to at least these versions, and add features.

        Raises:
            InvalidPropertyError: an unknown version or feature.
            DeltaProtocolError: the protocol enables a rule that tahoe does not enforce yet.
        """
        changed = self._configuration.with_protocol(reader_version, writer_version, features, self.table.env.new_id)
        self._define(changed, "UPGRADE PROTOCOL", {"newProtocol": _protocol_text(changed)})

    @takes(column=TEXT, value=or_none(LONG))
    def sync_identity(self, column: str, value: int | None) -> None:
        """Move the high-water mark of an identity column to a value that is in the table.

        The absence of values beyond it counts as read: a winner that adds rows with such values conflicts.

        Args:
            value: the snapshot's last identity value in the direction of the step; None if the column has no values,
                and nothing changes.

        Raises:
            NotAnIdentityColumnError: the table has no identity column of that name.
        """
        start = self._configuration
        changed = start.with_identity_at(column, value) if value is not None else start
        self._define(changed, "SYNC IDENTITY", {"column": column})
        if value is not None:
            self.scan(self._farther(column, value))  # a winner that adds such values conflicts

    def _farther(self, column: str, value: int) -> Predicate:
        found = {
            name.lower(): (name, identity)
            for name, identity in identity_columns(self._configuration.schema, table=self.table.url)
        }
        name, identity = found[column.lower()]
        return Comparison(">" if identity.step > 0 else "<", Column((name,)), Literal(value))

    @takes(feature=TEXT, truncate_history=FLAG)
    def drop_feature(self, feature: str, *, truncate_history: bool = False) -> None:
        """Remove a feature that nothing uses any more from the protocol. `Table.drop_feature` does the steps before and
        after.

        Args:
            truncate_history: no readable version uses the feature, so no checkpoint needs protection.

        Raises:
            FeatureDropError: the feature is unknown or not supported by the table, or the table still needs it.
        """
        self._check_open()
        found = droppable_feature(self._configuration.protocol, feature, table=self.table.url)
        check_given_up(found, self.snapshot, truncate_history=truncate_history)
        protects = found.is_reader_feature and not truncate_history
        changed = self._configuration.without_feature(
            found, protected_before=self.snapshot.version + 1 if protects else None
        )
        self._draft.is_alone = True
        self._draft.domains |= {
            domain.domain: domain.replace(removed=True) for domain in domains_of(found, self.snapshot)
        }
        self._define(changed, "DROP FEATURE", {"featureName": feature, "truncateHistory": truncate_history})

    def _define(self, changed: TableConfiguration, operation: str, parameters: Mapping[str, Any]) -> None:
        self._check_open()
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        check_files_fit(self.snapshot, self._draft.adds, self._configuration, changed)
        if changed != self._configuration:
            self._configuration = changed
            self._did(operation, parameters)

    @takes(domain=TEXT, configuration=or_none(TEXT))
    def set_domain(self, domain: str, configuration: str | None) -> None:
        """Set the text of a metadata domain, or remove the domain with None. Domains of features (`delta.*`) and of
        tags are refused.

        Raises:
            InvalidOptionError: the domain belongs to a feature or is a tag, or the domain to remove does not exist.
        """
        self._check_open()
        if domain.lower().startswith(_SYSTEM_DOMAINS):
            raise self._invalid("domain", domain, "domains that start with delta. belong to table features")
        if is_tag(domain):
            raise self._invalid(
                "domain", domain, "it is a tag, which is made and dropped with Table.tag and Table.untag"
            )
        known = self._draft.domains.get(domain) or self.snapshot.domains.get(domain)
        if configuration is None and (known is None or known.removed):
            raise self._invalid("domain", domain, "the table has no such domain")
        changed = self._configuration.with_protocol(None, None, ["domainMetadata"], self.table.env.new_id)
        check_writable(changed.protocol, changed.metadata, table=self.table.url)
        self._configuration = changed
        if configuration is None:
            self._remove_domain(domain)
        else:
            self._draft.domains[domain] = DomainMetadata(domain=domain, configuration=configuration)
            self._did("SET DOMAIN", {"domain": domain})

    def _remove_domain(self, domain: str) -> None:
        """Remove a domain that the table has. Row ids that it tells stay assigned."""
        known = self._draft.domains.get(domain) or self.snapshot.domains[domain]
        if domain == ROW_TRACKING:
            start = self._configuration
            self._configuration = replace(
                start, metadata=with_row_ids_kept(start.metadata, known, table=self.table.url)
            )
        self._draft.domains[domain] = known.replace(removed=True)
        self._did("SET DOMAIN", {"domain": domain})

    @takes(app_id=TEXT, version=LONG)
    def set_txn(self, app_id: str, version: int) -> None:
        """Record the version of an application, even if a later one is recorded. For idempotent writes see `txn` of
        `Table.transaction`.
        """
        self._check_open()
        self._draft.txns[app_id] = version
        self._did("SET TRANSACTION", {"appId": app_id, "version": version})


def _protocol_text(definition: TableConfiguration) -> str:
    protocol = definition.protocol
    return f"{protocol.reader_version},{protocol.writer_version},{','.join(sorted(protocol.writer_features or ()))}"
