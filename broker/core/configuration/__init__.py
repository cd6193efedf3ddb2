"""The settings of brokers and topics: tables, values in force, alteration and description."""
